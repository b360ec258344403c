import { bundle, library } from '@mtl/tooling/tsup';

/** Commands that are bundled with what they use of other packages. */
const bundled = ['checkpoint', 'data/data', 'doctor', 'run/run', 'runs', 'watch'];

/** Commands that load modules of a user, who imports the same packages: there must be one copy of each. */
const linked = [
  'calibrate',
  'chat',
  'completion',
  'convert',
  'eval/eval',
  'finetune',
  'generate',
  'plan/plan',
  'push/push',
  'schedule/schedule',
  'sft',
  'train',
];

const makeEntry = (name: string) => ({ [`commands/${name}`]: `src/commands/${name}.ts` });

// each bundle by itself: files shared by several would have all that is in the index of a package
export default [
  library({ index: 'src/index.ts', ...Object.assign({}, ...linked.map(makeEntry)) }),
  bundle({
    entry: { main: 'src/main.ts' },
    external: [...bundled, ...linked].map((name) => `./commands/${name}.js`),
  }),
  ...bundled.map((name) => bundle({ entry: makeEntry(name) })),
];
