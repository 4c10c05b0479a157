"""Statistics of rewards: estimators, intervals, groups of components, advice on training. No I/O."""
