/** `tollgate deposits import`: addresses of Solana, with a real chain's programs behind the node. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../../test/commandContext.ts'
import { type DepositHouse, openDepositHouse, TEST_XPUB } from '../../test/deposits/depositHouse.ts'
import { NODE_SECRET, openRpcProxy, type RpcProxy } from '../../test/deposits/rpcProxy.ts'
import { newWallets, SolanaTestChain } from '../../test/deposits/solanaChain.ts'
import { makeSolanaToken, type SolanaTestToken } from '../../test/deposits/solanaToken.ts'
import { loadConfig } from '../config/config.ts'
import { selectCursor } from '../payments/deposits/watch/store.ts'

let folder: string
let chain: SolanaTestChain
let node: RpcProxy
let usdc: SolanaTestToken
let house: DepositHouse
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-import-'))
  chain = await SolanaTestChain.open()
  node = openRpcProxy(chain.url)
  usdc = await makeSolanaToken(chain)
  const usdt = await makeSolanaToken(chain)
  const tokens = { usdc: usdc.address, usdt: usdt.address }
  house = await openDepositHouse({ chain: 'solana', nodes: [node.url], tokens })
  const solana = `solana: { rpc_url_envs: [NODE], tokens: { usdc: '${usdc.address}', usdt: '${usdt.address}' } }`
  await writeFile(join(folder, 'tollgate.yaml'), `deposits: { chains: { ${solana} } }\n`)
})
afterAll(async () => {
  await house.close()
  node.close()
  await chain.close()
  await rm(folder, { recursive: true })
})

const tollgate = (...argv: string[]) =>
  runCommand(argv, house, { loadConfig: (flags) => loadConfig(flags, { NODE: node.url }, folder) })

async function fileOf(...lines: readonly string[]): Promise<string> {
  const file = join(folder, `${crypto.randomUUID()}.txt`)
  await writeFile(file, lines.join('\n'))
  return file
}

test('addresses are imported and given out; those with a history are named and skipped', async () => {
  const [fresh = '', used = ''] = await newWallets(2)
  await usdc.send(used, 1n)
  const file = await fileOf('# from the vault', fresh, used)
  expect(await tollgate('deposits', 'import', file)).toEqual({
    exitCode: 0,
    stdout: `Addresses imported: 1; free: 1.\nskipped: ${used} has a history on the chain\n`,
    stderr: '',
  })
  expect((await house.create(await house.customer(), 500)).address).toBe(fresh)
})

test('with --replace those that were free are never given out', async () => {
  const wallets = await newWallets(3)
  await tollgate('deposits', 'import', await fileOf(...wallets.slice(0, 2)))
  const { stdout } = await tollgate('deposits', 'import', await fileOf(...wallets.slice(2)), '--replace', '--json')
  expect(JSON.parse(stdout)).toEqual({ imported: 1, skipped: [], retired: 2, free: 1 })
  expect((await house.create(await house.customer(), 500)).address).toBe(wallets[2] ?? '')
})

const PRIVATE_KEY = '5MaiiCavjCmn9Hs1o3eznqDEhRwxo7pXiAYez7keQUviUkauRiTMD8DrESdrNjN8zd9mTmVhRvBJeg5vhyvgrAhG'

test('a file with a mistake is refused whole, each line is named, and a private key is not quoted', async () => {
  const [one = '', other = ''] = await newWallets(2)
  const file = await fileOf(one, PRIVATE_KEY, one, await usdc.accountOf(other), other)
  const { exitCode, stdout, stderr } = await tollgate('deposits', 'import', file)
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
  expect(stderr).toContain('line 2 is a private key')
  expect(stderr).toContain('line 3 has the same address as line 1')
  expect(stderr).toContain('line 4 is the address of no wallet')
  expect(stderr).not.toContain(PRIVATE_KEY)
  expect((await tollgate('deposits', 'import', await fileOf(one))).exitCode).toBe(0)
})

test('an address that was imported before is refused', async () => {
  const [address = ''] = await newWallets(1)
  const file = await fileOf(address)
  await tollgate('deposits', 'import', file)
  const { exitCode, stderr } = await tollgate('deposits', 'import', file)
  expect({ exitCode, stderr }).toEqual({
    exitCode: 1,
    stderr: expect.stringContaining('line 1 has an address that was imported before'),
  })
})

test('with the nodes away nothing is imported, and the address of a node is not told', async () => {
  const file = await fileOf(...(await newWallets(1)))
  node.isUp = false
  const { exitCode, stderr } = await tollgate('deposits', 'import', file)
  node.isUp = true
  expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringContaining('nothing is imported') })
  expect(stderr).not.toContain(NODE_SECRET)
})

test('a file that is not there, and settings without Solana, are told', async () => {
  const missing = await tollgate('deposits', 'import', join(folder, 'none.txt'))
  expect(missing).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('can’t be read') })
  const other = await mkdtemp(join(folder, 'other-'))
  await writeFile(
    join(other, 'tollgate.yaml'),
    `deposits: { xpub: ${TEST_XPUB}, chains: { base: { rpc_urls: ['http://127.0.0.1:1'] } } }\n`,
  )
  const parts = { loadConfig: (flags: Parameters<typeof loadConfig>[0]) => loadConfig(flags, {}, other) }
  const without = await runCommand(['deposits', 'import', await fileOf()], house, parts)
  expect(without).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('the settings have no solana') })
})

test('the sweep plan and the rescan know Solana', async () => {
  const [address = ''] = await newWallets(1)
  await tollgate('deposits', 'import', await fileOf(address), '--replace')
  await house.look()
  await house.create(await house.customer(), 500)
  await usdc.send(address, 5_000_000n)
  chain.mine(3)
  await house.look()
  const { stdout } = await tollgate('deposits', 'sweep-plan')
  expect(stdout).toContain(`solana,usdc,${usdc.address},${address},,,5000000,5.00\n`)
  const rescan = await tollgate('deposits', 'rescan', '--chain', 'solana', '--from-block', '1')
  expect(rescan.stdout).toContain('reads solana from block 1 on')
})

test('a rescan from a slot that no two nodes keep is refused with the first one that they do', async () => {
  await house.look()
  const cursor = async () => (await selectCursor(house.database, 'solana')).settledBlock
  const before = await cursor()
  node.falsify = ({ method }, result) => (method === 'getFirstAvailableBlock' ? 5_000 : result)
  const rescan = () => tollgate('deposits', 'rescan', '--chain', 'solana', '--from-block', '0')
  expect(await rescan()).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('--from-block 6800') })
  node.isUp = false
  expect(await rescan()).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('nothing is changed') })
  Object.assign(node, { isUp: true, falsify: (_: unknown, result: unknown) => result })
  expect(await cursor()).toBe(before)
})
