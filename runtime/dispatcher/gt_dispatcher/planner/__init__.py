"""Plans instructions: which worker does which local calls and collectives."""
