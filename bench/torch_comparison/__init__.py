"""Parts of bench/compare_torch.py: the workload, torch's ranks, sluice's runs, one microbatch alone, the
tables."""
