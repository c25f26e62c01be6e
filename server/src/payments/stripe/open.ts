import { Refused } from '../../lib/errors.ts'
import type { Log } from '../../lib/log.ts'
import { createStripe, type StripeSettings } from './client.ts'
import { CURRENCY } from './facts.ts'
import { createStripeProvider } from './provider.ts'
import { verifyStripe } from './signature.ts'

/** Opens Stripe as the payment provider. Asks Stripe for nothing yet. */
export function openStripe(settings: StripeSettings & { readonly automaticTax: boolean }, log: Log) {
  const stripe = createStripe(settings)
  const provider = createStripeProvider({ stripe, log, automaticTax: settings.automaticTax })
  return {
    provider,
    /** Refuses an account that settles in another currency (B8). One that can't be asked now is taken for good. */
    async checkCurrency(): Promise<void> {
      const currency = await provider.settlementCurrency().catch((error: unknown) => {
        if (!(error instanceof Refused)) throw error
        log.warn({}, "payments: the currency of Stripe's account could not be checked")
        return null
      })
      if (currency !== null && currency !== CURRENCY)
        throw new Error(`payments: Stripe's account settles in ${currency.toUpperCase()}; it must settle in USD`)
    },
    /** Returns the check of its callbacks' signatures. */
    verifyWith: verifyStripe,
  }
}
