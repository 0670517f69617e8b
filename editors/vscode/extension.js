// Starts `cepheid lsp` for documents of queries, and hands it the settings.
"use strict";

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function activate() {
  const settings = workspace.getConfiguration("cepheid");
  const server = { command: settings.get("command"), args: ["lsp"] };
  client = new LanguageClient("cepheid", "Cepheid", server, {
    documentSelector: [{ language: "cepheid" }],
    initializationOptions: settings,
    synchronize: { configurationSection: "cepheid" },
  });
  return client.start();
}

function deactivate() {
  return client ? client.stop() : undefined;
}

module.exports = { activate, deactivate };
