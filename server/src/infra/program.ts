/** Where a program of the machine is; null where there is none of this name. `path` as the variable PATH has it; left out: our own. */
export function findProgram(name: string, path?: string): string | null {
  return Bun.which(name, path === undefined ? {} : { PATH: path })
}
