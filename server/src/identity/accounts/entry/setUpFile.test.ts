/** The file with the link to set up the first account goes once there is one. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { openSetUpLink } from '../../../commands/firstKey.ts'
import type { ServeContext } from '../../../commands/startUp.ts'
import { systemClock } from '../../../infra/clock.ts'
import { systemRandom } from '../../../infra/random.ts'

let house: AccountsHouse
let file: string
beforeAll(async () => {
  house = await openAccountsHouse()
  file = join(house.gateway.dataDirectory, 'set-up-link')
})
afterAll(() => house.gateway.close())

/** As a start does whose output is no terminal. */
function start(): ReturnType<typeof openSetUpLink> {
  const { database, dataDirectory } = house.gateway
  const context = {
    config: { settings: { fixed: { accounts: {} } }, member: null, dataDirectory },
    opened: { database },
    clock: systemClock,
    randomBytes: systemRandom(),
    stdoutIsTerminal: false,
  }
  return openSetUpLink(context as unknown as ServeContext, 'https://tollgate.test')
}

test('it is removed when somebody has used a link, by whichever browser, and not by a try that fails', async () => {
  expect(await start()).toEqual({ file })
  const path = await house.setUpPath()
  expect((await house.browser().fill(path, { ...OWNER, new_password: 'short' })).status).toBe(422)
  expect(existsSync(file)).toBe(true)
  expect((await house.browser().fill(path, OWNER)).status).toBe(303)
  expect(existsSync(file)).toBe(false)
})

test('a start removes one that another process could not, and a file that can not be removed stops nothing', async () => {
  await Bun.write(file, 'https://tollgate.test/account/set-up?token=old\n')
  expect(await start()).toBeNull()
  expect(existsSync(file)).toBe(false)
  // A folder can't be removed as a file.
  await mkdir(file)
  expect(await start()).toBeNull()
  await rmdir(file)
})
