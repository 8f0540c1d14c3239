"""Which mapping for which length: exact tables over all lengths, one layout of keys and values, fewest mappings."""
