"""Studies over many solves: sweeps, baseline mappers, and the fuzzer."""
