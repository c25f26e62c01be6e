import { type HttpServer, type ListenOptions, listen } from '../infra/httpServer.ts'
import { CommandFailure } from './command.ts'

/** Opens a port; throws what is in the way in words for the operator. `flag` is the option that names the port. */
export function openPort(flag: '--port' | '--admin-port', options: ListenOptions): HttpServer {
  try {
    return listen(options)
  } catch (error) {
    const problem = explain(error, flag, options)
    throw problem === null ? error : new CommandFailure(problem)
  }
}

function explain(error: unknown, flag: string, { host, port }: ListenOptions): string | null {
  switch (error instanceof Error && 'code' in error ? error.code : null) {
    case 'EADDRINUSE':
      return `port ${port} of ${host} is taken by another program: stop that, or give another ${flag}, such as 0 for any free one`
    case 'EACCES':
      return `this user may not open port ${port} of ${host}: give a ${flag} from 1024 up`
    case 'EADDRNOTAVAIL':
    case 'EINVAL':
      return `${host} is no address of this machine: give another --host, such as 0.0.0.0 for all that it has`
    default:
      return null
  }
}
