"""Plans that simpler planners make: what an optimal plan is compared with (docs/baselines.md tells of single layers)."""
