import { z } from 'zod'
import { isIn, parseAddress, parseNetworks } from '../lib/networks.ts'
import { Secret } from '../lib/secret.ts'
import { HOUR_MS, SECOND_MS } from '../lib/time.ts'
import {
  DEPOSIT_CHAINS,
  type DepositChain,
  type DepositChainSettings,
  ISSUED_TOKENS,
  isEvmChain,
  type TokenContracts,
} from './depositChain.ts'
import { faultOfXpub, isSolanaAddress } from './depositKey.ts'
import type { Path, Report } from './document.ts'
import { credentialOf, type SettingsContext, variableName } from './loadRemote.ts'
import type { DepositSettings } from './settings.ts'
import { closed, seconds, whole } from './shape.ts'

const CENTS_MAX = 99_999_999
const MIN_DEPOSIT_CENTS = 500
const MIN_TRANSFER_CENTS = 100
const OPEN_MAX = 1_000
const PER_DAY_MAX = 100_000
const PLAIN_HOSTS_MAX = 20
const EXPIRES_HOURS_MAX = 30 * 24
const POLL_SECONDS_MAX = 3_600
/** More are not asked for one answer. */
const RPC_URLS_MAX = 5
const BLOCK_RANGE_MAX = 100_000
const POOL_WARN_MAX = 100_000
/** Nodes of Solana are asked by account, so that a step may be as long as this: some five days. */
const SOLANA_BLOCK_RANGE = 1_000_000

const XPUB_HINT =
  "the server must hold no private key: give the extended public key of an account ('xpub…') that a wallet shows"
const RPC_HINT = "an address with a key in it must not be in this file: name an environment variable in 'rpc_url_envs'"

const contract = z.string().regex(/^0x[0-9a-fA-F]{40}$/, "must be a contract's address: 0x and 40 hex digits")

const mint = z.string().max(44).refine(isSolanaAddress, "must be a mint's address: base58 of 32 bytes")

const nodes = {
  rpc_url_envs: z.array(variableName).max(RPC_URLS_MAX).optional(),
  rpc_urls: z
    .array(z.string().regex(/^https?:\/\/[^\s/?#@]+\/*$/, `must be an address without a path; ${RPC_HINT}`))
    .max(RPC_URLS_MAX)
    .optional(),
  poll_seconds: seconds(1, POLL_SECONDS_MAX).optional(),
}

const EvmShape = closed({
  ...nodes,
  block_range: whole(1, BLOCK_RANGE_MAX).optional(),
  tokens: closed({ usdc: contract.optional(), usdt: contract.optional() }).optional(),
})

const SolanaShape = closed({
  ...nodes,
  pool_warn_below: whole(0, POOL_WARN_MAX).optional(),
  tokens: closed({ usdc: mint.optional(), usdt: mint.optional() }).optional(),
})

const evm = EvmShape.optional()

/** A chain as it stands in the file, of whichever kind. */
type ChainInput = z.infer<typeof EvmShape> | z.infer<typeof SolanaShape>

/** The section `deposits` as it stands in the file. */
export const DepositsShape = closed(
  {
    xpub: z
      .string()
      .regex(/^xpub[1-9A-HJ-NP-Za-km-z]{107}$/, `must be an extended public key: ${XPUB_HINT}`)
      .optional(),
    min_deposit_cents: whole(1, CENTS_MAX).optional(),
    min_transfer_cents: whole(0, CENTS_MAX).optional(),
    open_deposits: whole(1, OPEN_MAX).optional(),
    deposits_per_day: whole(1, PER_DAY_MAX).optional(),
    expires_hours: whole(1, EXPIRES_HOURS_MAX).optional(),
    plain_http_hosts: z.array(z.string().min(1).max(253)).max(PLAIN_HOSTS_MAX).optional(),
    screening: closed({ url_env: variableName, secret_env: variableName.optional() }).optional(),
    chains: closed({ ethereum: evm, base: evm, arbitrum: evm, polygon: evm, solana: SolanaShape.optional() }),
  },
  { xprv: XPUB_HINT, mnemonic: XPUB_HINT, private_key: XPUB_HINT },
).optional()

type DepositsInput = NonNullable<z.infer<typeof DepositsShape>>

/** Reads how stablecoins are taken. Null where something was reported. */
export function loadDeposits(
  read: DepositsInput,
  path: Path,
  context: SettingsContext,
  report: Report,
): DepositSettings | null {
  const chains = DEPOSIT_CHAINS.flatMap((name) => {
    const input = read.chains[name]
    return input === undefined ? [] : [loadChain(name, input, [...path, 'chains', name], context, report)]
  })
  for (const { chain: name, rpcUrls } of chains)
    for (const url of rpcUrls) refusePlain(url.reveal(), [...path, 'chains', name], read.plain_http_hosts ?? [], report)
  if (chains.length === 0) report([...path, 'chains'], `must have at least one of ${DEPOSIT_CHAINS.join(', ')}`)
  if (read.xpub === undefined && chains.some((each) => isEvmChain(each.chain)))
    report([...path, 'xpub'], `is required by ${chains.find((each) => isEvmChain(each.chain))?.chain}: ${XPUB_HINT}`)
  const fault = read.xpub === undefined ? null : faultOfXpub(read.xpub)
  if (fault !== null) report([...path, 'xpub'], fault)
  const minDepositCents = read.min_deposit_cents ?? MIN_DEPOSIT_CENTS
  const minTransferCents = read.min_transfer_cents ?? Math.min(MIN_TRANSFER_CENTS, minDepositCents)
  if (minTransferCents > minDepositCents)
    report(
      [...path, 'min_transfer_cents'],
      `is more than min_deposit_cents, ${minDepositCents}: a deposit must be worth a transfer`,
    )
  const hook = read.screening
  const urlOf = (variable: string, key: string) => {
    const url = readUrl(variable, [...path, 'screening', key], context, report)
    refusePlain(url.reveal(), [...path, 'screening', key], read.plain_http_hosts ?? [], report)
    return url
  }
  const secret = hook?.secret_env
  return {
    xpub: read.xpub ?? null,
    minDepositCents,
    minTransferCents,
    openMost: read.open_deposits ?? 10,
    perDayMost: read.deposits_per_day ?? 100,
    expiresMs: (read.expires_hours ?? 24) * HOUR_MS,
    screening:
      hook === undefined
        ? null
        : {
            url: urlOf(hook.url_env, 'url_env'),
            bearer:
              secret === undefined
                ? null
                : credentialOf(secret, context, (reason) => report([...path, 'screening', 'secret_env'], reason)),
          },
    chains,
  }
}

function loadChain(
  name: DepositChain,
  input: ChainInput,
  path: Path,
  context: SettingsContext,
  report: Report,
): DepositChainSettings {
  const named = (input.rpc_url_envs ?? []).map((variable, index) =>
    readUrl(variable, [...path, 'rpc_url_envs', index], context, report),
  )
  const rpcUrls = [...named, ...(input.rpc_urls ?? []).map((url) => new Secret(url))]
  if (rpcUrls.length === 0) report(path, "needs 'rpc_url_envs' or 'rpc_urls': addresses of nodes of the chain")
  if (rpcUrls.length > RPC_URLS_MAX) report(path, `has more than ${RPC_URLS_MAX} addresses of nodes`)
  // A variable that is not set is reported above.
  const known = rpcUrls.map((url) => url.reveal()).filter((url) => url !== '')
  if (new Set(known.map(sameUrl)).size < known.length)
    report(path, 'names a node twice: two that must agree have to be two')
  const tokens = Object.entries({ ...ISSUED_TOKENS[name], ...input.tokens }).map(([asset, address]) => [
    asset,
    isEvmChain(name) ? address?.toLowerCase() : address,
  ])
  const addresses = tokens.map(([, address]) => address)
  // Each transfer would count as one of the two tokens, and a deposit of the other one would never be paid.
  if (new Set(addresses).size < addresses.length)
    report([...path, 'tokens'], 'names one contract for both tokens: name that of each')
  if (name === 'base' && input.tokens?.usdt !== undefined)
    report([...path, 'tokens', 'usdt'], 'is not issued on base: remove it')
  return {
    chain: name,
    rpcUrls,
    pollMs: Math.round((input.poll_seconds ?? 10) * SECOND_MS),
    blockRange: blockRangeOf(name, input),
    tokens: Object.fromEntries(tokens) as TokenContracts,
    poolWarnBelow: isEvmChain(name) ? null : (('pool_warn_below' in input ? input.pool_warn_below : null) ?? 100),
  }
}

function blockRangeOf(name: DepositChain, input: ChainInput): number {
  if (!isEvmChain(name)) return SOLANA_BLOCK_RANGE
  return ('block_range' in input ? input.block_range : null) ?? 1_000
}

/** Two writings of one address, such as with the port that is meant anyway, are equal. */
function sameUrl(text: string): string {
  return URL.canParse(text) ? new URL(text).href.replace(/\/+$/, '') : text
}

/** Networks in which nobody else listens: loopback, those for private use, and those of a link. */
const PRIVATE_NETWORKS = parseNetworks([
  '127.0.0.0/8',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '169.254.0.0/16',
  '::1/128',
  'fc00::/7',
  'fe80::/10',
])

/** Over plain HTTP whoever is on the way reads the key of a node, and answers in its place: then money is credited that nobody sent. */
function refusePlain(text: string, path: Path, plainHosts: readonly string[], report: Report): void {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || url.protocol !== 'http:') return
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const address = parseAddress(host)
  // A name without a dot is one of a network of the operator's own, such as that of containers.
  const isOwnName = address === null && !host.includes('.')
  if (isOwnName || (address !== null && isIn(address, PRIVATE_NETWORKS)) || plainHosts.includes(host)) return
  report(
    path,
    "names another host over plain http: use https, or name the host in 'deposits.plain_http_hosts' where nobody can listen in between",
  )
}

function readUrl(variable: string, path: Path, context: SettingsContext, report: Report): Secret {
  const secret = credentialOf(variable, context, (reason) => report(path, reason))
  const text = secret?.reveal() ?? ''
  const isUrl = /^https?:\/\//.test(text) && URL.canParse(text) && !/[@#]/.test(text)
  if (secret !== null && !isUrl) report(path, `the value of ${variable} is not an address that begins with https://`)
  return secret ?? new Secret('')
}
