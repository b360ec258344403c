import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
const conf = await import('@mtl/configuration'); const ci = await import('@mtl/configuration/internal');
const planning = await import('@mtl/planning/internal');
const log = process.argv[2]; const seen = existsSync(log) ? readFileSync(log, 'utf8') : '';
const done = new Set(seen.split('\n').filter((l) => l.startsWith('START')).map((l) => l.slice(6)));
const base = '--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --train-iters 4 --tokenizer-type NullTokenizer --vocab-size 63';
const need = { 'num-query-groups': '--group-query-attention', 'wsd': '' };
const names = process.argv[3] ? process.argv[3].split(',') : (await import('./flagnames.mjs')).default;
for (const name of names) for (const v of [1e6, 3e7, 1e12, 2 ** 53 - 1]) {
  const key = `${name} ${v}`;
  if (done.has(key)) continue;
  appendFileSync(log, `START ${key}\n`);
  const t = performance.now(); let r;
  const moe = name.startsWith('moe') || name.includes('expert') ? ' --num-experts 4 --disable-bias-linear' : '';
  try {
    const flags = conf.parseFlags(`${base}${moe} --${name} ${v} --dry-run`.split(' '), { model: 'gpt' });
    await planning.printDryRun({ flags, numProcesses: flags.values['num-processes'], variables: {}, print: () => {} }); r = 'works';
  } catch (e) { r = `${e.code ?? 'UNCODED'} ${String(e.message).slice(0, 130)} | ${e.expected ?? ''}`; }
  appendFileSync(log, `END ${key} ${((performance.now() - t) / 1000).toFixed(1)}s ${(process.memoryUsage().rss / 1e6).toFixed(0)}MB ${r}\n`);
}
process.exit(0);
