/**
 * No text has so many characters a token on the average. Tokenizing holds up all other calls, so what is beyond hope is
 * refused without.
 */
export const TOKEN_CHARACTERS = 64
