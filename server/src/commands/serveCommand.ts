import { CONFIG_OPTION, type Command, DATA_DIR_OPTION } from './command.ts'
import { configOf } from './environment.ts'

/** `tollgate serve` */
export const serveCommand: Command = {
  words: ['serve'],
  summary: 'Run the gateway until it is stopped',
  options: [
    { name: 'port', value: 'PORT', summary: 'the port for calls; 0 takes any free port', preset: '8080' },
    { name: 'host', value: 'ADDRESS', summary: 'the address to listen on; 0.0.0.0 for all', preset: '127.0.0.1' },
    { name: 'admin-port', value: 'PORT', summary: 'metrics and readiness, on loopback, without a key', preset: '9464' },
    { name: 'processes', value: 'N', summary: 'gateway processes that share the port; one for each core', preset: '1' },
    DATA_DIR_OPTION,
    CONFIG_OPTION,
  ],
  examples: ['tollgate serve', 'tollgate serve --host 0.0.0.0 --port 80 --processes 4 --config /etc/tollgate.yaml'],
  run: async (invocation, context) => {
    const config = await configOf(invocation, context)
    return { exitCode: await context.serve({ config, json: invocation.json }) }
  },
}
