"""The admission plan: live statistics and declarations in, what becomes of delay targets out."""
