"""What a run really exercised: laws that were judged with something at stake, situations met."""
