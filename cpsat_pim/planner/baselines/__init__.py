"""Plans that simpler planners make: what an optimal plan is compared with."""
