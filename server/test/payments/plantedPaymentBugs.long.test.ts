/** The histories see bugs of payments and subscriptions: each is put into a copy of the source, and must be found there. */

import { isOfReversals, PLANTED_PAYMENT_BUGS } from './plantedPaymentBugs.ts'
import { testPlantedBugs } from './plantPaymentBugs.ts'

testPlantedBugs(PLANTED_PAYMENT_BUGS.filter((bug) => !isOfReversals(bug)))
