/**
 * The characters that no name of a person, a key or a passkey may hold, since others read it: controls, ends of lines, halves of
 * characters, and marks that turn the direction of the text behind them. Marks that join emoji may stand in it.
 */
export const NOT_IN_NAMES: RegExp = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u
