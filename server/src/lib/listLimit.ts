import { wholeNumberField } from './queryFields.ts'

const LIMIT_MOST = 200

/** How many entries a page of a list has where the client names no number. */
export const LIMIT_DEFAULT = 50

/** Returns the schema of the parameter `limit` of lists. */
export function listLimit() {
  return wholeNumberField(1, LIMIT_MOST, `Default: ${LIMIT_DEFAULT}.`)
}
