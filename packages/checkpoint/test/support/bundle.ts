import { build } from 'tsup';

/** Bundles one TypeScript file and the sources of the workspace, because Node 20 does not run TypeScript. */
export async function bundle(options: { readonly entry: string; readonly outDir: string }): Promise<void> {
  await build({
    config: false,
    silent: true,
    entry: [options.entry],
    outDir: options.outDir,
    format: ['esm'],
    target: 'node20',
    noExternal: [/^@mtl\//],
    esbuildOptions: (esbuild) => {
      esbuild.conditions = ['@mtl/source'];
    },
  });
}
