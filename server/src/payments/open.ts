import type { Catalog } from '../catalog/model.ts'
import type { FixedSettings, PaymentSettings } from '../catalog/settings.ts'
import { createOrganizationTurns } from '../http/limits/organizationTurns.ts'
import { createRateLimiter } from '../http/limits/rateLimit.ts'
import type { Route } from '../http/route.ts'
import type { Noter } from '../identity/audit/note.ts'
import type { Metrics } from '../infra/metrics.ts'
import type { Database, Queryable } from '../infra/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'
import { ASKING_TURNS, createProviderAsks, type ProviderAsks } from './asks/asks.ts'
import { mendAutoPay } from './autoPay/mend.ts'
import { readEnabledAutoPay } from './autoPay/read.ts'
import { autoPayRoutes } from './autoPay/routes.ts'
import { createAutoPayRunner } from './autoPay/runner.ts'
import type { LocalProviderDependencies } from './local/dependencies.ts'
import { createLocalProvider, type LocalProvider } from './local/provider.ts'
import type { PaymentProvider } from './provider/provider.ts'
import { hearing } from './reconcile/hearing.ts'
import { reconcileDue } from './reconcile/reconcile.ts'
import { refreshReversal } from './reversals/refresh.ts'
import { localRoutes, paymentRoutes, stripeRoutes, subscriptionCheckoutRoutes } from './routes.ts'
import { createPriceReader, noPrices } from './subscriptions/prices.ts'
import type { SubscriptionRefreshDependencies } from './subscriptions/refresh.ts'
import { sweepSubscriptions } from './subscriptions/sweep.ts'
import { createLinks, donePage, type Links } from './topUps/links.ts'
import { sweepDue, sweepPayments } from './topUps/sweep.ts'
import { openTopUp, type TopUpDependencies } from './topUps/topUp.ts'
import { reportUnserved } from './unserved/report.ts'

/** Payments that nobody tells of are seen so soon after they are due. */
const SWEEP_MS = 15 * SECOND_MS

export interface PaymentsOptions {
  readonly database: Database
  /** For reads whose clients wait. */
  readonly reads: Queryable
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly metrics: Metrics
  readonly catalog: () => Pick<Catalog, 'plans'>
  /** Organizations have notices. Returns at once. */
  readonly onNoticed: () => void
  /** Writes changes into the audit log. */
  readonly noter: Noter
  readonly config: {
    /** The address that the server is to listen on. */
    readonly host: string
    readonly port: number
    readonly settings: { readonly fixed: Pick<FixedSettings, 'payments' | 'publicUrl'> }
  }
}

/** The bounds on what organizations have asked of the payment provider, in the memory of this process. */
function openAsks(clock: Clock): ProviderAsks {
  return createProviderAsks({ limiter: createRateLimiter(clock), turns: createOrganizationTurns(clock, ASKING_TURNS) })
}

type Parts = Omit<SubscriptionRefreshDependencies, 'provider'>

/** Opens the room of payments. Where the settings have no payments, it gives no more than the addresses of pages. */
export async function openPayments({ config, catalog, metrics, onNoticed, noter, reads, ...machine }: PaymentsOptions) {
  const { payments: settings, publicUrl } = config.settings.fixed
  const links = createLinks(publicUrl, `http://${config.host}:${config.port}`)
  /** For the application. */
  const app = { listensAt: links.listensAt }
  await reportUnserved(machine, settings)
  if (settings === null) {
    return { app, forBilling: { readPrice: noPrices, readAutoPay: async () => null }, routes: [] }
  }
  const { clock, log } = machine
  const parts = { ...machine, plans: () => catalog().plans, onMethodSaved: mendAutoPay(clock) }
  const { provider, routes } = await openProvider(settings, links, parts)
  const readPrice = createPriceReader(provider, clock, log)
  const dependencies = { ...parts, provider, links, readPrice, noter, asks: openAsks(clock) }
  const openLink = mendingLink(dependencies, links)
  const runner = createAutoPayRunner({ ...dependencies, metrics, openLink, onNoticed })
  const startedAtMs = clock.now()
  return {
    app,
    forBilling: {
      readPrice,
      readAutoPay: (organizationId: string) => readEnabledAutoPay(reads, organizationId),
    },
    onOpened: runner.start,
    stop: runner.close,
    routes: [
      ...autoPayRoutes({ ...dependencies, reads, bounds: settings, wake: runner.wake }),
      ...paymentRoutes({ ...dependencies, reads, bounds: settings }),
      ...subscriptionCheckoutRoutes(dependencies),
      ...routes,
    ],
    periodicTasks: [
      {
        name: 'payments',
        everyMs: SWEEP_MS,
        run: (isStopping: () => boolean) => sweepRoom(dependencies, startedAtMs, isStopping),
      },
    ],
  }
}

/** Looks at all that is due, although nobody has told of it. `startedAtMs`: when this process was started. */
export async function sweepRoom(
  dependencies: SubscriptionRefreshDependencies,
  startedAtMs: number,
  isStopping: () => boolean,
): Promise<void> {
  await sweepPayments(dependencies, isStopping)
  await sweepSubscriptions(dependencies, isStopping)
  await sweepDue(dependencies, 'payment_reversals', isStopping, (id) => refreshReversal(dependencies, id))
  if (!isStopping()) await reconcileDue(dependencies, startedAtMs, isStopping)
}

interface OpenedProvider {
  readonly provider: PaymentProvider
  /** Those that it needs itself. */
  readonly routes: readonly Route[]
}

function openProvider({ provider: settings }: PaymentSettings, links: Links, parts: Parts): Promise<OpenedProvider> {
  return settings.name === 'stripe' ? openStripeWithRoutes(settings, parts) : openLocal(links, parts)
}

async function openLocal(links: Links, parts: Parts): Promise<OpenedProvider> {
  const { log } = parts
  const provider = localProvider(links, parts)
  log.warn({}, 'payments: the local payment provider is on: test mode, no real money')
  const hear = hearing({ ...parts, provider })
  const onChanged = (id: string) => (id.startsWith('lcs_') ? hear.checkout(id) : hear.subscription(id))
  return { provider, routes: localRoutes({ local: provider, onChanged, log }) }
}

async function openStripeWithRoutes(settings: StripeSettings, parts: Parts): Promise<OpenedProvider> {
  const { log, clock } = parts
  const { provider, checkCurrency, verifyWith } = await connectToStripe(settings, log)
  await checkCurrency()
  const { webhookSecret } = settings
  if (webhookSecret === null) {
    log.warn({}, 'payments: no webhook_secret_env is set, so Stripe can not call; payments are found by asking')
    return { provider, routes: [] }
  }
  return { provider, routes: stripeRoutes(verifyWith(webhookSecret, clock), hearing({ ...parts, provider })) }
}

/** Returns how a checkout is opened that mends auto-pay: it pays the amount, and saves the payment method. */
function mendingLink(dependencies: TopUpDependencies, links: Links) {
  return async (organizationId: string, amountCents: number): Promise<string | null> => {
    const id = uuidV7(dependencies.clock.now(), dependencies.random)
    const { checkoutUrl } = await openTopUp(dependencies, {
      id,
      organizationId,
      amountCents,
      savesMethod: true,
      isMending: true,
      successUrl: donePage(links, id),
      cancelUrl: links.page('/cancelled'),
      keep: async () => [],
    })
    return checkoutUrl
  }
}

type StripeSettings = Extract<PaymentSettings['provider'], { name: 'stripe' }>

function localProvider(links: Links, parts: Omit<LocalProviderDependencies, 'pageUrl'>): LocalProvider {
  return createLocalProvider({ ...parts, pageUrl: (path) => links.page(`/local${path}`) })
}

/** The package has 1 MB of code, which takes memory and work of the garbage collector: it is loaded where it is used. */
async function connectToStripe(settings: StripeSettings, log: Log) {
  const { openStripe } = await import('./stripe/open.ts')
  return openStripe(settings, log)
}

/** For commands: opens what works on payments, without routes and tasks. Null where the settings have no payments. */
export async function openPaymentTools({
  config,
  catalog,
  ...machine
}: Omit<PaymentsOptions, 'metrics' | 'onNoticed' | 'noter' | 'reads'>) {
  const { payments: settings, publicUrl } = config.settings.fixed
  if (settings === null) return null
  const onMethodSaved = mendAutoPay(machine.clock)
  const parts = { ...machine, plans: () => catalog().plans, onMethodSaved }
  if (settings.provider.name === 'stripe') {
    const { provider } = await connectToStripe(settings.provider, machine.log)
    return { ...parts, provider, local: null }
  }
  const local = localProvider(createLinks(publicUrl, `http://${config.host}:${config.port}`), machine)
  return { ...parts, provider: local, local }
}
