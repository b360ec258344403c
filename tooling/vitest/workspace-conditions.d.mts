export declare const workspaceConditions: readonly string[];
