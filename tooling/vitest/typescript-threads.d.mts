export declare const typescriptThreads: { readonly preload: URL; readonly execArgv: readonly string[] };
