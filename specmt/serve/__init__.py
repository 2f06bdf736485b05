"""The HTTP server: many clients, one session a model, the same bytes for everyone (docs/serve.md)."""
