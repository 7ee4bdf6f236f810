"""Admission plan (`weir plan`): predicts from measurements and declarations which classes would miss their delay targets."""
