/** The source of the tokens of the tests, of our own: an ERC-20 token as far as deposits meet one. */
export const TOKEN_SOURCE = `
// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

contract Token {
  string public symbol;
  uint8 public decimals;
  mapping(address => uint256) public balanceOf;

  event Transfer(address indexed from, address indexed to, uint256 value);

  constructor(string memory tokenSymbol, uint8 tokenDecimals) {
    symbol = tokenSymbol;
    decimals = tokenDecimals;
    balanceOf[msg.sender] = 1e18;
  }

  function transfer(address to, uint256 value) public returns (bool) {
    balanceOf[msg.sender] -= value;
    balanceOf[to] += value;
    emit Transfer(msg.sender, to, value);
    return true;
  }

  /** Several transfers of one transaction. */
  function transferParts(address to, uint256[] calldata values) external {
    for (uint256 index = 0; index < values.length; index++) transfer(to, values[index]);
  }
}
`
