/**
 * What the tests need beyond npm: looks for it first, and stops with the one line that brings what is missing. With
 * `--long` also what only the long tests need; with `--packages` it prints the names of the missing packages, for
 * `.ci/run`, and nothing else. An issue whose tests need another program adds a line to `PROGRAMS`.
 */

interface Program {
  readonly name: string
  readonly debianPackage: string
  readonly purpose: string
  /** Only for `npm run test:long`. */
  readonly long: boolean
}

const PROGRAMS: readonly Program[] = [
  { name: 'strace', debianPackage: 'strace', purpose: 'ends the server at a chosen system call', long: false },
  { name: 'redis-server', debianPackage: 'redis-server', purpose: 'what processes share limits by', long: false },
  { name: 'ffmpeg', debianPackage: 'ffmpeg', purpose: 'makes clips and turns them into mp4', long: false },
  { name: 'pgbouncer', debianPackage: 'pgbouncer', purpose: 'a pooler in front of PostgreSQL', long: true },
  { name: 'chromium', debianPackage: 'chromium', purpose: 'plays the clips', long: true },
  {
    name: 'python3',
    debianPackage: 'python3-venv',
    purpose: 'the official client for Python, schemathesis, and the program that recomputes charges',
    long: true,
  },
]

/** Debian keeps servers where a normal user's PATH does not look. */
const PATH = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`

const isLong = process.argv.includes('--long')
const missing = PROGRAMS.filter(({ name, long }) => (isLong || !long) && Bun.which(name, { PATH }) === null)
const packages = missing.map(({ debianPackage }) => debianPackage).join(' ')

if (process.argv.includes('--packages')) {
  console.log(packages)
} else if (missing.length > 0) {
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
