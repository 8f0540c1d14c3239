"""What all folders share: dims and units, validation rules for fields, and reading and writing of files."""
