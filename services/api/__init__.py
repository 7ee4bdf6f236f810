"""REST: who shows a key may declare, ask and read what its scopes say."""
