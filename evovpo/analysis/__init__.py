"""Statistics of rewards: estimators, intervals, grouping, the doctor. No I/O."""
