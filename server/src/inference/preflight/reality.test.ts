import { holdPreflightToReality } from '../../../test/preflightReality.ts'

// A quarter of the states for each model; `test:long` takes all.
holdPreflightToReality({ every: 4 })
