import { bundle, library } from '@mtl/tooling/tsup';

/**
 * Commands that are not bundled with what they use of other packages, since they may load modules of a user,
 * who imports these packages too: there must be one copy of each.
 */
const others = [
  'calibrate',
  'chat',
  'completion',
  'convert',
  'eval/eval',
  'finetune',
  'generate',
  'plan/plan',
  'schedule/schedule',
  'sft',
  'train',
];

export default [
  library({
    index: 'src/index.ts',
    ...Object.fromEntries(others.map((name) => [`commands/${name}`, `src/commands/${name}.ts`])),
  }),
  bundle({ entry: { main: 'src/main.ts' }, external: others.map((name) => `./commands/${name}.js`) }),
];
