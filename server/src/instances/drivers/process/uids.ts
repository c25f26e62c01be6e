/** The user ids of machines: each has one of its own, as a link in a folder by whose name nobody else takes it. */

import { mkdir, readdir, readlink, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs, codeOf } from '../../../infra/folder.ts'

export interface UidRange {
  readonly firstUid: number
  /** As many machines as there may be at once. */
  readonly machinesMost: number
}

const folderOf = (directory: string) => join(directory, 'uids')

/** Takes a free id for a machine, or finds the one that it has; null: none is free. */
export async function takeUid(directory: string, name: string, range: UidRange): Promise<number | null> {
  await mkdir(folderOf(directory), { recursive: true, mode: 0o700 })
  const [own] = await uidsOf(directory, name)
  if (own !== undefined) return own
  for (let uid = range.firstUid; uid < range.firstUid + range.machinesMost; uid += 1) {
    try {
      await symlink(name, join(folderOf(directory), String(uid)))
      return uid
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error
    }
  }
  return null
}

/** Each id that is taken, and the machine that has it. */
async function takenUids(directory: string): Promise<{ readonly uid: number; readonly name: string }[]> {
  const links = await readdir(folderOf(directory)).catch(absentAs<string[]>([]))
  const taken = await Promise.all(
    links.map(async (uid) => {
      const name = await ownerOf(join(folderOf(directory), uid))
      return name === null ? [] : [{ uid: Number(uid), name }]
    }),
  )
  return taken.flat()
}

/** The machine that has the id of a link; null: none has. */
function ownerOf(link: string): Promise<string | null> {
  return readlink(link).catch(absentAs(null))
}

/** The ids that a machine has. More than one only where two processes have begun to make it. */
export async function uidsOf(directory: string, machine: string): Promise<number[]> {
  return (await takenUids(directory)).filter(({ name }) => name === machine).map(({ uid }) => uid)
}

/** Gives the id of a machine back, unless another machine has it by now. No process may have it any more. */
export async function freeUid(directory: string, uid: number, machine: string): Promise<void> {
  const link = join(folderOf(directory), String(uid))
  if ((await ownerOf(link)) === machine) await unlink(link).catch(absentAs(undefined))
}
