/** The program of docs/billing.md, which customers recompute their bill with. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Ran, run } from './python.ts'

const GUIDE = join(import.meta.dirname, '../../docs/billing.md')

/** Returns the program as the guide prints it. */
export async function guideProgram(): Promise<string> {
  const [, program = ''] = /```python\n(.*?)```/s.exec(await readFile(GUIDE, 'utf8')) ?? []
  return program
}

/** Runs the program for one month against a gateway whose address has no path. */
export async function recomputeBill(url: string, key: string, month: string): Promise<Ran> {
  const folder = await mkdtemp(join(tmpdir(), 'recompute-'))
  const file = join(folder, 'recompute.py')
  await writeFile(file, await guideProgram())
  try {
    return await run(['python3', file, month], { environment: { TOLLGATE_URL: url, TOLLGATE_API_KEY: key } })
  } finally {
    await rm(folder, { recursive: true })
  }
}
