/** Names of the mock's models: `mock-<chunks>x<ms>`. */

/** A stamp has about 13 bytes. With one token reported for it, Tollgate doubts the report and charges by a count of its own. */
const TOKENS_A_STAMP = 2

/** Returns the tokens that the mock reports for an answer of this model: the same for each, so that charges can be counted. */
export function mockTokens(model: string): number {
  const [, chunks, paceMs] = /^mock-(\d+)x(\d+)$/.exec(model) ?? []
  return Number(chunks) * (paceMs === '0' ? 1 : TOKENS_A_STAMP)
}
