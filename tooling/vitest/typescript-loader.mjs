// Lets a process or worker thread import TypeScript sources: --import of a process, or the preload of a
// rank's thread.
import { register } from 'node:module';

// an error names the line of the source
process.setSourceMapsEnabled(true);
const compiler = import.meta.resolve('esbuild');
register('./typescript-hooks.mjs', { parentURL: import.meta.url, data: { compiler } });
