"""How good the models are on real data; skipped where there is none."""
