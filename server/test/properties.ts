/**
 * fast-check, with the seed of the run: property tests try the same values each time, so that a commit passes or fails and not an hour.
 * `properties.long.test.ts` tries others.
 */

import fc from 'fast-check'
import { FIRST_SEED_VARIABLE } from './runner/failures.ts'

fc.configureGlobal({ seed: Number(process.env[FIRST_SEED_VARIABLE] || 1) })

export { fc }
