export declare const typescriptThreads: { readonly preload: URL; readonly execArgv: readonly string[] };
export declare const typescriptFlags: readonly string[];
export declare const workspaceFlags: readonly string[];
