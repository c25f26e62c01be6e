/** The operator's commands for deposits, on a real chain. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../../test/commandContext.ts'
import { openTestChain, type TestChain } from '../../test/deposits/anvil.ts'
import { type DepositHouse, openDepositHouse, TEST_XPUB } from '../../test/deposits/depositHouse.ts'
import { NODE_SECRET, openRpcProxy, type RpcProxy } from '../../test/deposits/rpcProxy.ts'
import { deployToken, type TestToken } from '../../test/deposits/token.ts'
import { addressesByViem } from '../../test/deposits/wallet.ts'
import { loadConfig } from '../config/config.ts'
import { selectCursor } from '../payments/deposits/watch/store.ts'

let folder: string
let chain: TestChain
let node: RpcProxy
let usdc: TestToken
let house: DepositHouse
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-deposits-'))
  chain = await openTestChain(137)
  node = openRpcProxy(chain.url)
  usdc = await deployToken(chain.url, 'USDC')
  house = await openDepositHouse({ chain: 'polygon', nodes: [node.url], tokens: { usdc: usdc.address } })
  const settings = `deposits: { xpub: ${TEST_XPUB}, chains: { polygon: { rpc_url_envs: [NODE], tokens: { usdc: '${usdc.address}' } } } }\n`
  await writeFile(join(folder, 'tollgate.yaml'), settings)
  await house.look()
})
afterAll(async () => {
  await house.close()
  node.close()
  await chain.close()
  await rm(folder, { recursive: true })
})

const tollgate = (...argv: string[]) =>
  runCommand(argv, house, { loadConfig: (flags) => loadConfig(flags, { NODE: node.url }, folder) })

/** A deposit of $5 that is paid and held by its screening. */
async function held() {
  house.hook = async () => ({ verdict: 'unknown' })
  const organizationId = await house.customer()
  const deposit = await house.create(organizationId, 500)
  await usdc.send(deposit.address, 5_000_000n)
  await chain.mine(3)
  await house.look()
  return { ...deposit, organizationId }
}

test('list shows deposits with what is credited and their status', async () => {
  const { id } = await held()
  const { stdout } = await tollgate('deposits', 'list', '--json')
  expect(JSON.parse(stdout).deposits).toContainEqual(
    expect.objectContaining({
      id,
      status: 'held_screening',
      chain: 'polygon',
      amount_usd: '5.00',
      credited_usd: '0.00',
    }),
  )
  expect((await tollgate('deposits', 'list')).stdout).toContain(id)
})

test('show has each transfer, with why it is held', async () => {
  const { id } = await held()
  const { stdout } = await tollgate('deposits', 'show', id, '--json')
  expect(JSON.parse(stdout).transfers).toEqual([
    expect.objectContaining({
      state: 'held',
      units: '5000000',
      token: usdc.address,
      sender: expect.any(String),
      senders: [expect.any(String)],
      reason: 'the screening could not be asked',
    }),
  ])
})

test.each(['nonsense', '01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6'])(
  'show of the unknown deposit %s says so in one line',
  async (id) => {
    expect(await tollgate('deposits', 'show', id)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: `tollgate: there is no deposit ${id}: "tollgate deposits list" shows all\n`,
    })
  },
)

test('show of a deposit that nobody has paid says that nothing has come', async () => {
  const { id } = await house.create(await house.customer(), 500)
  expect((await tollgate('deposits', 'show', id)).stdout).toContain('Nothing has come')
})

test('release credits what is held, and there is nothing to release twice', async () => {
  const { id, organizationId } = await held()
  expect(await tollgate('deposits', 'release', id, '--amount', '5.00')).toMatchObject({ exitCode: 0 })
  expect(await house.credits(organizationId)).toEqual([500_000_000n])
  const again = await tollgate('deposits', 'release', id, '--amount', '5.00')
  expect(again).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(`nothing of the deposit ${id} is held`) })
  expect(await house.credits(organizationId)).toHaveLength(1)
})

test('reject never credits it', async () => {
  const { id, organizationId } = await held()
  expect(await tollgate('deposits', 'reject', id, '--amount', '5', '--note', 'ticket 812')).toMatchObject({
    exitCode: 0,
  })
  expect((await house.find(id)).status).toBe('failed_screening')
  expect(await house.credits(organizationId)).toEqual([])
})

test('a deposit that there is not has nothing to release', async () => {
  for (const id of ['01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6', 'nonsense'])
    expect((await tollgate('deposits', 'release', id, '--amount', '5.00')).exitCode).toBe(1)
})

test('the sweep plan has what lies where now, to the last digit, and the path of a key that the wallet has', async () => {
  const { address, addressIndex } = await held()
  const { stdout } = await tollgate('deposits', 'sweep-plan')
  const [wallet = ''] = addressesByViem([addressIndex ?? -1])
  expect(wallet.toLowerCase()).toBe(address)
  const line = `polygon,usdc,${usdc.address},${wallet},m/0/${addressIndex},`
  const found = stdout.split('\n').filter((each) => each.startsWith(line))
  expect(found).toEqual([expect.stringMatching(/,[0-9a-f]{8},5000000,5\.00$/)])
  expect(stdout.split('\n')[0]).toBe('chain,asset,token,address,path,key_fingerprint,units,amount')
})

test('a node that is away is told of without its address', async () => {
  await held()
  node.isUp = false
  const { exitCode, stderr } = await tollgate('deposits', 'sweep-plan')
  node.isUp = true
  expect({ exitCode, stderr }).toEqual({
    exitCode: 1,
    stderr: expect.stringContaining('node 1 of polygon answered 503'),
  })
  expect(stderr).not.toContain(NODE_SECRET)
})

test('rescan puts the cursor of a chain back, and refuses what it can’t', async () => {
  expect((await tollgate('deposits', 'rescan', '--chain', 'polygon', '--from-block', '1')).stdout).toContain(
    'reads polygon from block 1 on',
  )
  const refused = await tollgate('deposits', 'rescan', '--chain', 'base', '--from-block', '1')
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('base was never watched') })
  expect((await tollgate('deposits', 'rescan', '--chain', 'doge', '--from-block', '1')).exitCode).toBe(2)
  expect((await tollgate('deposits', 'rescan', '--chain', 'base', '--from-block', '-1')).exitCode).toBe(2)
})

test('skipping puts the cursor of a chain forward to a final block, once it is confirmed', async () => {
  const skip = (block: number, ...confirmed: string[]) =>
    tollgate('deposits', 'rescan', '--chain', 'polygon', '--skip-to', `${block}`, ...confirmed)
  await house.look()
  await chain.mine(10)
  const { number: finalBlock } = await house.reader.finalBlock()
  const cursor = async () => (await selectCursor(house.database, 'polygon')).settledBlock
  const before = await cursor()
  expect(before).toBeLessThan(finalBlock - 1)
  expect(await skip(finalBlock)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('is not credited') })
  expect((await skip(finalBlock, '--confirm', '7')).exitCode).toBe(2)
  const early = await skip(finalBlock + 1, '--confirm', `${finalBlock + 1}`)
  expect(early).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(`--skip-to ${finalBlock} `) })
  expect(await cursor()).toBe(before)
  const done = await skip(finalBlock, '--confirm', `${finalBlock}`)
  expect(done).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`--from-block ${before + 1}`) })
  expect(await cursor()).toBe(finalBlock - 1)
  const again = await skip(finalBlock, '--confirm', `${finalBlock}`)
  expect(again).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('nothing to skip') })
  expect((await tollgate('deposits', 'rescan', '--chain', 'polygon')).exitCode).toBe(2)
})
