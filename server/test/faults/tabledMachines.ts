/** A driver whose machines are rows, so that they outlive the process that made them. */

import type { Database } from '../../src/infra/postgres/database.ts'
import type { DriverMachine, InstanceDriver, MachineState } from '../../src/instances/drivers/driver.ts'

/** `made` counts the creations that found no machine of the name. */
export const MACHINES_TABLE =
  'create table test_machines (name text primary key, state text not null, made integer not null, is_there boolean not null)'

export function tabledMachines(database: Database): InstanceDriver {
  const find = async (name: string): Promise<DriverMachine | null> => {
    const rows = await database.query<{ name: string; state: MachineState }>(
      'select name, state from test_machines where name = $1 and is_there',
      [name],
    )
    const [row] = rows
    return row === undefined ? null : { ...row, appUrl: `http://machine.test/${row.name}`, terminalUrl: null }
  }
  return {
    kind: 'tabled',
    async create(name) {
      await database.query(
        `insert into test_machines as m (name, state, made, is_there) values ($1, 'running', 1, true)
         on conflict (name) do update set is_there = true, made = m.made + case when m.is_there then 0 else 1 end`,
        [name],
      )
      const machine = await find(name)
      if (machine === null) throw new Error('it was deleted meanwhile')
      return machine
    },
    status: find,
    async delete(name) {
      await database.query('update test_machines set is_there = false where name = $1', [name])
    },
    async list() {
      const rows = await database.query<{ name: string; state: MachineState }>(
        'select name, state from test_machines where is_there',
      )
      return rows.map((row) => ({ ...row, appUrl: null, terminalUrl: null }))
    },
  }
}
