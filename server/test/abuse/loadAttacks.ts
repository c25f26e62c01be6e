import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Attack } from './attack.ts'

const FOLDER = join(import.meta.dirname, 'attacks')

/** The names of the files in `attacks/`, without their ending. */
export function attackNames(): string[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map((file) => file.slice(0, -'.ts'.length))
    .sort()
}

/** Returns the one attack that a file of `attacks/` exports. Throws where it exports none. */
export async function loadAttack(name: string): Promise<Attack> {
  const exported: Readonly<Record<string, unknown>> = await import(join(FOLDER, `${name}.ts`))
  const found = Object.values(exported).find(isAttack)
  if (found === undefined) throw new Error(`attacks/${name}.ts exports no Attack`)
  return found
}

function isAttack(value: unknown): value is Attack {
  return typeof value === 'object' && value !== null && 'name' in value && 'about' in value && 'run' in value
}
