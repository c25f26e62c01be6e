import { holdPreflightToReality } from '../../../test/preflightReality.ts'

holdPreflightToReality({ every: 1 })
