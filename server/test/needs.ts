/**
 * What the tests need beyond npm: looks for it first, and stops with the one line that brings what is missing. An issue
 * whose tests need another program adds a line to `PROGRAMS`.
 */

/** Each program of the tests, the Debian package that has it, and what for. */
const PROGRAMS = [{ name: 'strace', package: 'strace', purpose: 'kills the server at a chosen system call' }] as const

const missing = PROGRAMS.filter(({ name }) => Bun.which(name) === null)

if (missing.length > 0) {
  const packages = missing.map((program) => program.package).join(' ')
  const install = `apt-get update && apt-get install -y ${packages}`
  const lines = [
    'The tests need what is missing here:',
    ...missing.map(({ name, purpose }) => `  ${name}: ${purpose}`),
    'Install it with this line, then start again:',
    '',
    `  ${process.getuid?.() === 0 ? install : `sudo sh -c '${install}'`}`,
    '',
  ]
  console.error(lines.join('\n'))
  process.exit(1)
}
