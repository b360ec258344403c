// The program of a rank process that `startLocalRanks` starts.
const own = new URL(import.meta.url);
// the sources are .mjs and .ts files, the build has .js files
const rest = own.pathname.endsWith('.mjs') ? './local-rank.ts' : './local-rank.js';
const { runLocalRank } = await import(new URL(rest, own).href);
await runLocalRank(JSON.parse(process.argv[2]));
