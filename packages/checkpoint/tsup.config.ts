import { entryPoints, library } from '@mtl/tooling/tsup';

// The thread that writes is a file of its own. Of @mtl/kernels it needs a type only, and no native code.
export default library([...entryPoints(), 'src/saving/shard-writer.ts'], {
  inlined: ['@mtl/kernels'],
});
