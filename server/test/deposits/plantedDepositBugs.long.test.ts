/** The histories of deposits see bugs: each is put into a copy of the source, and must be found there. */

import { testPlantedBugs } from '../payments/plantPaymentBugs.ts'
import { PLANTED_DEPOSIT_BUGS } from './plantedDepositBugs.ts'

testPlantedBugs(PLANTED_DEPOSIT_BUGS, 'server/test/deposits/run.ts')
