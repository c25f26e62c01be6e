/**
 * Which reports of tokens by a provider are believed (C4). Providers that claim too little are found by the length of the text;
 * only then the text is counted, which takes time.
 */

/** Even the tokenizers that make the fewest tokens of a text put no more than about so many bytes into one, on average. */
const BYTES_PER_TOKEN_MOST = 8

/** Tokenizers differ: the count of ours may be so many times the model's own. */
const COUNT_FACTOR_MOST = 2

/** Returns whether a report is so low for `bytes` of UTF-8 text that the text is to be counted. */
export function needsCheck(reportedTokens: number, bytes: number): boolean {
  return reportedTokens * BYTES_PER_TOKEN_MOST < bytes
}

/** Returns the tokens to charge for: the report, or the count where the report is below half of it. */
export function believed(reportedTokens: number, countedTokens: number): number {
  return reportedTokens * COUNT_FACTOR_MOST < countedTokens ? countedTokens : reportedTokens
}
