import { bundle, library } from '@mtl/tooling/tsup';

/** Commands that are bundled together with the code that they import from other packages. */
const bundled = ['checkpoint', 'data/data', 'doctor', 'run/run', 'runs', 'watch'];

/**
 * Commands that load the user's own modules. These modules import the same packages as the command. Each
 * package must be loaded only once, so these commands do not bundle the packages.
 */
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

// each bundle is built separately, because files shared by several bundles would contain the complete index
// of a package
export default [
  library({ index: 'src/index.ts', ...Object.assign({}, ...linked.map(makeEntry)) }),
  bundle({
    entry: { main: 'src/main.ts' },
    external: [...bundled, ...linked].map((name) => `./commands/${name}.js`),
  }),
  ...bundled.map((name) => bundle({ entry: makeEntry(name) })),
];
