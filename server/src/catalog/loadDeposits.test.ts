import { expect, test } from 'bun:test'
import { TEST_BRANCH_XPUB } from '../../test/deposits/wallet.ts'
import { loadSettings } from './load.ts'

const XPUB =
  'xpub6Ce9NcJvTk36xtLSrJLZqE7wtgA5deCeYs7rSQtreh4cj6ByPtrg9sD7V2FNFLPnf8heNP3FGkeV9qwfzvZNSd54JoNXVsXFYSYwHsnJxqP'
const NODE = 'https://node.example/v3/secret-in-path'
const environment = {
  NODE_ONE: NODE,
  NODE_TWO: `${NODE}/2`,
  NO_URL: 'secret-in-path',
  NODE_AGAIN: 'https://node.example:443/v3/secret-in-path/',
  PLAIN: 'http://node.example/secret-in-path',
  HOOK: 'https://hook.example/secret-in-path',
}

function load(section: string) {
  const loaded = loadSettings(`deposits: ${section}\n`, { environment, directory: '/', fileExists: () => false })
  return loaded.ok ? loaded.settings.fixed.deposits : loaded.problems.map(({ path, reason }) => `${path}: ${reason}`)
}

const chains = (text: string) => `{ xpub: ${XPUB}, chains: { ${text} } }`

test('an extended public key and a node are enough; addresses of nodes are secrets', () => {
  const read = load(chains('base: { rpc_url_envs: [NODE_ONE] }'))
  expect(read).toMatchObject({
    minDepositCents: 500,
    minTransferCents: 100,
    openMost: 10,
    perDayMost: 100,
    expiresMs: 86_400_000,
    screening: null,
    chains: [{ chain: 'base', pollMs: 10_000, blockRange: 1_000 }],
  })
  expect(JSON.stringify(read)).not.toContain('secret-in-path')
})

test('the issuers’ contracts are known, Base has no USDT, and others may be named', () => {
  const read = load(
    chains(
      'base: { rpc_urls: ["http://127.0.0.1:8545"] }, polygon: { rpc_url_envs: [NODE_ONE], tokens: { usdc: "0xAAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" } }',
    ),
  )
  expect(read).toMatchObject({
    chains: [
      { chain: 'base', tokens: { usdc: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913' } },
      { chain: 'polygon', tokens: { usdc: `0x${'a'.repeat(40)}`, usdt: '0xc2132d05d31c914a87c6611c10748aeb04b58e8f' } },
    ],
  })
  expect(JSON.stringify(read)).not.toContain('"usdt":null')
})

test('Solana needs no extended public key; its mints keep their letters’ case, and its pool has a warning', () => {
  const mint = 'So11111111111111111111111111111111111111112'
  expect(load(`{ chains: { solana: { rpc_url_envs: [NODE_ONE], tokens: { usdc: ${mint} } } } }`)).toMatchObject({
    xpub: null,
    chains: [
      {
        chain: 'solana',
        poolWarnBelow: 100,
        tokens: { usdc: mint, usdt: 'Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB' },
      },
    ],
  })
  expect(load('{ chains: { solana: { rpc_url_envs: [NODE_ONE], pool_warn_below: 5 } } }')).toMatchObject({
    chains: [{ poolWarnBelow: 5 }],
  })
  expect(load(chains('base: { rpc_url_envs: [NODE_ONE] }'))).toMatchObject({ chains: [{ poolWarnBelow: null }] })
})

test.each([
  [chains(''), 'deposits.chains: must have at least one of ethereum, base, arbitrum, polygon, solana'],
  ['{ chains: { base: { rpc_url_envs: [NODE_ONE] } } }', 'deposits.xpub: is required by base'],
  [chains('solana: {}'), "deposits.chains.solana: needs 'rpc_url_envs' or 'rpc_urls'"],
  [chains('solana: { rpc_url_envs: [NODE_ONE], block_range: 10 }'), "there is no setting 'block_range' here"],
  [chains('solana: { rpc_url_envs: [NODE_ONE], tokens: { usdc: "0x12" } }'), "must be a mint's address"],
  [chains('base: { rpc_url_envs: [NODE_ONE], pool_warn_below: 10 }'), "there is no setting 'pool_warn_below' here"],
  [
    chains('solana: { rpc_url_envs: [NODE_ONE], tokens: { usdt: EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v } }'),
    'deposits.chains.solana.tokens: names one contract for both tokens',
  ],
  [
    chains('polygon: { rpc_url_envs: [NODE_ONE], tokens: { usdt: "0x3C499c542cEF5E3811e1192ce70d8cC03d5c3359" } }'),
    'deposits.chains.polygon.tokens: names one contract for both tokens',
  ],
  [
    chains('solana: { rpc_url_envs: [NODE_ONE], tokens: { usdc: "2222222222222222222222222222222222222222222" } }'),
    "must be a mint's address",
  ],
  [
    `{ xpub: ${XPUB.replace(/P$/, 'Q')}, chains: { base: { rpc_url_envs: [NODE_ONE] } } }`,
    'deposits.xpub: is mistyped, as its checksum tells',
  ],
  [
    `{ xpub: ${TEST_BRANCH_XPUB}, chains: { base: { rpc_url_envs: [NODE_ONE] } } }`,
    'deposits.xpub: is of depth 4, not 3',
  ],
  [chains('base: {}'), "deposits.chains.base: needs 'rpc_url_envs' or 'rpc_urls'"],
  [chains('base: { rpc_url_envs: [NONE] }'), 'the environment variable NONE is not set'],
  [chains('base: { rpc_url_envs: [NO_URL] }'), 'the value of NO_URL is not an address'],
  [chains(`base: { rpc_urls: ["${NODE}"] }`), 'must be an address without a path'],
  [chains('base: { rpc_url_envs: [NODE_ONE, NODE_ONE] }'), 'names a node twice'],
  [chains('base: { rpc_url_envs: [NODE_ONE, NODE_AGAIN] }'), 'names a node twice'],
  [chains('base: { rpc_url_envs: [PLAIN] }'), 'names another host over plain http'],
  [chains('base: { rpc_urls: ["http://8.8.8.8:8545"] }'), 'names another host over plain http'],
  [
    `{ xpub: ${XPUB}, screening: { url_env: PLAIN }, chains: { base: { rpc_url_envs: [NODE_ONE] } } }`,
    'names another host over plain http',
  ],
  [
    `{ xpub: ${XPUB}, min_deposit_cents: 50, min_transfer_cents: 51, chains: { base: { rpc_url_envs: [NODE_ONE] } } }`,
    'is more than min_deposit_cents',
  ],
  [
    chains('base: { rpc_url_envs: [NODE_ONE], tokens: { usdt: "0xAAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" } }'),
    'is not issued on base',
  ],
  [chains('base: { rpc_url_envs: [NODE_ONE], tokens: { usdc: "0x12" } }'), "must be a contract's address"],
  ['{ xprv: x, chains: { base: { rpc_url_envs: [NODE_ONE] } } }', 'the server must hold no private key'],
  [
    `{ xpub: ${XPUB.replace('xpub', 'xprv')}, chains: { base: { rpc_url_envs: [NODE_ONE] } } }`,
    'must be an extended public key',
  ],
  [
    `{ xpub: ${XPUB}, screening: { url_env: NO_URL }, chains: { base: { rpc_url_envs: [NODE_ONE] } } }`,
    'is not an address',
  ],
])('%s is refused', (section, reason) => {
  const problems = load(section)
  expect(problems).toContainEqual(expect.stringContaining(reason))
  expect(JSON.stringify(problems)).not.toContain('secret-in-path')
})

test('plain http is fine within the operator’s networks, and where a host is named for it', () => {
  const urls = ['http://127.0.0.1:8545', 'http://10.0.0.7:8545', 'http://[fd00::1]:8545', 'http://geth:8545']
  expect(load(chains(`base: { rpc_urls: ${JSON.stringify(urls)} }`))).toMatchObject({ minDepositCents: 500 })
  const named = `{ xpub: ${XPUB}, plain_http_hosts: [node.example], chains: { base: { rpc_url_envs: [PLAIN] } } }`
  expect(load(named)).toMatchObject({ minDepositCents: 500 })
})
