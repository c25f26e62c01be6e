/** The histories see bugs of refunds and disputes: each is put into a copy of the source, and must be found there. */

import { isOfReversals, PLANTED_PAYMENT_BUGS } from './plantedPaymentBugs.ts'
import { testPlantedBugs } from './plantPaymentBugs.ts'

testPlantedBugs(PLANTED_PAYMENT_BUGS.filter(isOfReversals))
