/** Tokens that a model may put around each message or input. */
export const TEMPLATE_TOKENS_EACH = 16
