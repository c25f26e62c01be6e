import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort, processTree } from './processes.ts'
import { type BenchContext, plainTarget, type Target } from './target.ts'

/**
 * Starts nginx as a plain reverse proxy: one worker, connections to the provider kept, no access log, and no buffering,
 * since a buffered answer doesn't stream. It reads no JSON, knows no keys and charges nothing: what a proxy costs at least.
 */
export async function startNginx(context: BenchContext): Promise<Target> {
  if (Bun.which('nginx') === null)
    throw new Error("nginx is missing: install it (Debian: 'apt-get install nginx-light')")
  const folder = join(context.folder, 'nginx')
  await mkdir(folder, { recursive: true })
  const port = freePort()
  const configFile = join(folder, 'nginx.conf')
  await writeFile(configFile, configuration(folder, port, context.mockPort))
  const command = ['nginx', '-p', folder, '-e', join(folder, 'error.log'), '-c', configFile]
  const child = await context.processes.start(command, { logFile: join(folder, 'output.log') })
  return plainTarget('nginx', port, () => processTree(child.pid))
}

function configuration(folder: string, port: number, mockPort: number): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return `
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid ${folder}/nginx.pid;
events { worker_connections 8192; }
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n  ')}
  keepalive_requests 100000000;
  upstream mock {
    server 127.0.0.1:${mockPort};
    keepalive 1024;
    keepalive_requests 100000000;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://mock;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`
}
